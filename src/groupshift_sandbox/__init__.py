"""The real thing on one machine: ZooKeeper, Kafka, members, Airflow as child processes."""
