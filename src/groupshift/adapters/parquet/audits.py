"""Audits as folders of evidence: `groupshift.ports.audits.AuditStore`."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from groupshift.adapters.parquet.evidence import schema_of
from groupshift.domain.audit import Audit
from groupshift.domain.audit_table import DIFFERENCES, summary
from groupshift.domain.evidence import MANIFEST, FileEntry
from groupshift.errors import Rejected, Transient

_FILE = "differences.parquet"


class ParquetAudits:
    """Folders on a local file system, each put in place whole: written beside its place under another name,
    manifest last, then renamed; whatever goes wrong leaves nothing behind."""

    def write(self, folder: Path, audit: Audit) -> None:
        """See the port."""
        folder = folder.absolute()
        self.refuse(folder)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
            try:
                _fill(draft, audit)
                draft.rename(folder)
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
        except OSError as failed:
            raise Transient(
                f"audit {folder} cannot be written ({failed.strerror or failed}); nothing of it was left: "
                "make room or choose another folder, then audit again"
            ) from failed

    def refuse(self, folder: Path) -> None:
        """See the port."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise Rejected(f"{folder} is not an empty folder: an audit is never overwritten; name another")


def _fill(draft: Path, audit: Audit) -> None:
    draft.chmod(0o755)
    rows = audit.looked.mismatches
    schema = schema_of(DIFFERENCES)
    columns = {name: [getattr(row, name) for row in rows] for name in schema.names}
    pq.write_table(pa.Table.from_pydict(columns, schema=schema), draft / _FILE, compression="zstd")
    data = (draft / _FILE).read_bytes()
    entry = FileEntry(
        table=DIFFERENCES.name,
        file=_FILE,
        rows=len(rows),
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )
    versions = {"groupshift": version("kafka-groupshift"), "pyarrow": str(pa.__version__)}
    document = {"version": 1, **summary(audit), "files": [asdict(entry)], "versions": versions}
    (draft / MANIFEST).write_text(json.dumps(document, indent=1) + "\n")
