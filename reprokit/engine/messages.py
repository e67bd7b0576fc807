"""The few protobuf messages of BuildKit that we speak, declared from field numbers at import time.

Sources: moby/buildkit ``session/secrets/secrets.proto``, ``session/auth/auth.proto``,
``session/sshforward/ssh.proto``,
``api/services/control/control.proto`` and grpc's ``health.proto``. Fields that we never read are left out: protobuf
skips what it does not know.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.message import Message

_FieldProto = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "string": _FieldProto.TYPE_STRING,
    "bytes": _FieldProto.TYPE_BYTES,
    "bool": _FieldProto.TYPE_BOOL,
    "int32": _FieldProto.TYPE_INT32,
    "int64": _FieldProto.TYPE_INT64,
}
_PACKAGE = "reprokit.buildkit"

# message -> ((field, number, type, repeated), ...); a type that is not a scalar names a message.
_MESSAGES: dict[str, tuple[tuple[str, int, str, bool], ...]] = {
    "GetSecretRequest": (("ID", 1, "string", False),),
    "GetSecretResponse": (("data", 1, "bytes", False),),
    "CredentialsRequest": (("Host", 1, "string", False),),
    "CredentialsResponse": (("Username", 1, "string", False), ("Secret", 2, "string", False)),
    "BytesMessage": (("data", 1, "bytes", False),),
    "CheckAgentRequest": (("ID", 1, "string", False),),
    "CheckAgentResponse": (),
    "HealthCheckRequest": (("service", 1, "string", False),),
    "HealthCheckResponse": (("status", 1, "int32", False),),
    "Vertex": (
        ("digest", 1, "string", False),
        ("inputs", 2, "string", True),
        ("name", 3, "string", False),
        ("cached", 4, "bool", False),
        ("started", 5, ".google.protobuf.Timestamp", False),
        ("completed", 6, ".google.protobuf.Timestamp", False),
        ("error", 7, "string", False),
    ),
    "VertexLog": (("vertex", 1, "string", False), ("stream", 3, "int64", False), ("msg", 4, "bytes", False)),
    "StatusResponse": (("vertexes", 1, "Vertex", True), ("logs", 3, "VertexLog", True)),
}


def _declare() -> dict[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(name="reprokit/buildkit.proto", package=_PACKAGE, syntax="proto3")
    file.dependency.append(timestamp_pb2.DESCRIPTOR.name)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            label = _FieldProto.LABEL_REPEATED if repeated else _FieldProto.LABEL_OPTIONAL
            declared = message.field.add(name=field, number=number, label=label)
            if kind in _TYPES:
                declared.type = _TYPES[kind]
            else:
                declared.type = _FieldProto.TYPE_MESSAGE
                declared.type_name = kind if kind.startswith(".") else f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


_CLASSES: dict[str, Any] = _declare()

GetSecretRequest = _CLASSES["GetSecretRequest"]
GetSecretResponse = _CLASSES["GetSecretResponse"]
CredentialsRequest = _CLASSES["CredentialsRequest"]
CredentialsResponse = _CLASSES["CredentialsResponse"]
BytesMessage = _CLASSES["BytesMessage"]
CheckAgentRequest = _CLASSES["CheckAgentRequest"]
CheckAgentResponse = _CLASSES["CheckAgentResponse"]
HealthCheckRequest = _CLASSES["HealthCheckRequest"]
HealthCheckResponse = _CLASSES["HealthCheckResponse"]
StatusResponse = _CLASSES["StatusResponse"]
