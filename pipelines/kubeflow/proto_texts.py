"""Walks over protos, and changes their texts in place, also those within `Any`."""

from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf import any_pb2, symbol_database
from google.protobuf.message import DecodeError, Message


def walk(message: Message) -> Iterator[Message]:
    """Yields a message and all messages within it, but leaves `Any` packed."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            many = value.values() if is_map(field) else value
            for item in [many] if isinstance(many, Message) else many:
                if isinstance(item, Message):
                    yield from walk(item)


def is_map(field: Any) -> bool:
    """Returns whether a field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def change_texts(message: Message, change: Callable[[str], str]) -> None:
    """Changes every text of a message in place; JSON counts as one text."""
    for one in walk(message):
        if isinstance(one, any_pb2.Any):
            if (inner := unpack_any(one)) is not None:
                change_texts(inner, change)
                one.Pack(inner, deterministic=True)
            continue
        for field, value in one.ListFields():
            if isinstance(value, str):
                setattr(one, field.name, change(value))
            elif is_map(field) or field.type == field.TYPE_STRING:
                for key, item in list(value.items() if is_map(field) else enumerate(value)):
                    if isinstance(item, str):
                        value[key] = change(item)


def unpack_any(message: any_pb2.Any) -> Message | None:
    """Returns the message in an `Any`, or None if its type is not known here."""
    name = message.type_url.rsplit("/", 1)[-1]
    try:
        inner: Message = symbol_database.Default().GetSymbol(name)()
        message.Unpack(inner)
    except (KeyError, DecodeError):
        return None
    return inner
