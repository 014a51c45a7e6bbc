"""Kafka brokers through confluent-kafka and kafka-python."""
