"""Every text of a proto changed in place, those within `Any` too."""

from collections.abc import Callable, MutableSequence

from google.protobuf import any_pb2, symbol_database
from google.protobuf.message import DecodeError, Message


def change_texts(message: Message, change: Callable[[str], str]) -> None:
    """Change every text of a message in place; JSON is changed as the text that it is."""
    if isinstance(message, any_pb2.Any):
        inner = unpack_any(message)
        if inner is not None:
            change_texts(inner, change)
            message.Pack(inner, deterministic=True)
        return
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for key, item in value.items():
                if isinstance(item, Message):
                    change_texts(item, change)
                elif isinstance(item, str):
                    value[key] = change(item)
        elif isinstance(value, Message):
            change_texts(value, change)
        elif isinstance(value, str):
            setattr(message, field.name, change(value))
        elif not isinstance(value, bytes) and isinstance(value, MutableSequence):
            for i, item in enumerate(value):
                if isinstance(item, Message):
                    change_texts(item, change)
                elif isinstance(item, str):
                    value[i] = change(item)


def unpack_any(message: any_pb2.Any) -> Message | None:
    """What an `Any` holds; None where its type is not known here."""
    name = message.type_url.rsplit("/", 1)[-1]
    try:
        inner: Message = symbol_database.Default().GetSymbol(name)()
        message.Unpack(inner)
    except (KeyError, DecodeError):
        return None
    return inner
