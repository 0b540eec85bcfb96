"""The memory of a folder of runs: each session and each result, for as long as the folder is kept."""
