"""Write what is generated from the vocabulary of events into the tree: `make schemas`."""

from __future__ import annotations

from breakrank.schemas.generate import ROOT, files

for path, text in files().items():
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
