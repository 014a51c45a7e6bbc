"""The evidence of a simulated run on a real disk: Parquet, manifests and texts as the product has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.domain.evidence import Manifest, Moment, Row
from groupshift.domain.run import SparkJob
from groupshift.spark.output import write_parquet, write_text
from groupshift_testing.evidence import MemoryProof


class DiskEvidence(ParquetEvidence):
    """What `MemoryProof` looks into, on disk."""

    @property
    def texts(self) -> Texts:
        """Small files by their path."""
        return Texts()


class Texts:
    """Paths to texts."""

    def __getitem__(self, path: str) -> str:
        return Path(path).read_text()

    def __setitem__(self, path: str, text: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)


class DiskProof(MemoryProof):
    """The same comparison over snapshots that are read from disk."""

    def _snapshot(self, path: str) -> tuple[Manifest, Mapping[str, Sequence[Row]]]:
        *_, run, phase, moment = path.split("/")
        key = (run, phase, Moment(moment))
        manifest = self.evidence.manifest(*key)
        assert manifest is not None
        return manifest, self.evidence.read(*key)


class FullProof(DiskProof):
    """A comparison that leaves every kind of file that the Spark jobs leave."""

    def run(self, request: SparkJob) -> None:
        """See the port."""
        output = Path(request.output)
        output.mkdir(parents=True, exist_ok=True)
        if output.name == "consumption":
            write_text(output / "audit.json", '{"verdict": "pass"}')
        else:
            super().run(request)
            write_parquet(output / "differences.parquet", [{"allowed": True}], "allowed boolean")
            write_parquet(output / "failing_rows.parquet", [{"row": "{}"}], "row string")
        write_text(output / "report.html", "<!doctype html><title>report</title>")
