"""The toy's Spark job: compares two snapshots and leaves the answer in a folder.

Arguments: folder of the earlier snapshot, folder of the later one, folder of the answer."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path


def main(before: str, after: str, output: str) -> None:
    """Compare by Spark."""
    from pyspark.sql import SparkSession

    files = {each: Path(each) / "values.json" for each in (before, after)}
    inputs = {each: hashlib.sha256(file.read_bytes()).hexdigest() for each, file in files.items()}
    spark = SparkSession.builder.appName("toy-compare").config("spark.ui.enabled", "false").getOrCreate()
    try:
        rows = [
            (name, value, side)
            for side, file in enumerate(files.values())
            for name, value in json.loads(file.read_text()).items()
        ]
        spark.createDataFrame(rows, ["name", "value", "side"]).createOrReplaceTempView("thing")
        found = spark.sql("SELECT name FROM thing GROUP BY name HAVING count(DISTINCT value) > 1")
        differs = sorted(row["name"] for row in found.collect())
    finally:
        spark.stop()
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "verdict.json").write_text(json.dumps({"inputs": inputs, "differs": differs}))


if __name__ == "__main__":
    main(*sys.argv[1:])
