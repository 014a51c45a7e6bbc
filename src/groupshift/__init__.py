"""groupshift moves Kafka consumer groups without downtime and proves it."""

__version__ = "0.1.0"
