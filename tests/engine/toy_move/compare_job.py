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

    inputs = {
        each: hashlib.sha256((Path(each) / "manifest.json").read_bytes()).hexdigest()
        for each in (before, after)
    }
    spark = SparkSession.builder.appName("toy-compare").config("spark.ui.enabled", "false").getOrCreate()
    try:
        rows = [
            (name, value, side)
            for side, folder in enumerate((before, after))
            for name, value in json.loads((Path(folder) / "values.json").read_text()).items()
        ]
        spark.createDataFrame(rows, ["name", "value", "side"]).createOrReplaceTempView("thing")
        found = spark.sql("SELECT name FROM thing GROUP BY name HAVING count(DISTINCT value) > 1")
        differs = sorted(row["name"] for row in found.collect())
        versions = {"spark": spark.version}
    finally:
        spark.stop()
    answer = Path(output)
    answer.mkdir(parents=True, exist_ok=True)
    (answer / "verdict.json").write_text(
        json.dumps({"inputs": inputs, "differs": differs, "versions": versions})
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
