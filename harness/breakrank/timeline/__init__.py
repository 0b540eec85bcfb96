"""A picture of a saved run: lanes of bars for a browser (`page`), and the same as a trace for Perfetto (`trace`).

`model` draws a history without a file being read or written: lanes, bars, marks and meetings. `pack` makes columns of
them, which a page carries compressed.
"""
