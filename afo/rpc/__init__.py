"""The protocol between Application Master, Child, trainer and client: msgpack messages over gRPC."""
