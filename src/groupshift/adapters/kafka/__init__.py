"""Kafka brokers through requests on kio's schemas, and records through confluent-kafka."""
