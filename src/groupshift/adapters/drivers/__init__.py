"""Who replaces members and nodes: a person, a program, a supervisor, Kubernetes."""
