"""ZooKeeper through kazoo."""
