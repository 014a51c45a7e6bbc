"""The peer of the comparison, run by the interpreter of its own virtual environment.

``python peer_datacompy.py BEFORE AFTER OUTPUT``: datacompy's Spark compare on the same files, with the same
master and heap; writes what it found (rows on one side only, rows that differ) to OUTPUT and prints one
line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    """Compare, materialise all three answers, print counts and seconds without the start of the JVM."""
    before, after, output = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--driver-memory 2g pyspark-shell"
    from datacompy.spark import SparkSQLCompare
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    began = time.perf_counter()
    sides = [spark.read.parquet(f"{folder}/*.parquet") for folder in (before, after)]
    compared = SparkSQLCompare(spark, *sides, join_columns=["group", "topic", "partition"])
    answers = {
        "lost": compared.df1_unq_rows,
        "extra": compared.df2_unq_rows,
        "mismatched": compared.all_mismatch(),
    }
    for name, frame in answers.items():
        frame.write.parquet(str(Path(output) / name))
    counts = {name: spark.read.parquet(str(Path(output) / name)).count() for name in answers}
    print(json.dumps({"counts": counts, "seconds": time.perf_counter() - began}))
    spark.stop()


if __name__ == "__main__":
    main()
