"""MLMD's gRPC service, in place of Google's image, with the C++ store of MLMD's Python wheel."""

import sys
import time
from concurrent import futures
from typing import Any

import grpc
from ml_metadata.metadata_store.pywrap.metadata_store_extension import metadata_store as pywrap
from ml_metadata.proto import metadata_store_pb2, metadata_store_service_pb2

SERVICE = metadata_store_service_pb2.DESCRIPTOR.services_by_name["MetadataStoreService"]


def _handler(store: Any, name: str) -> grpc.RpcMethodHandler:
    method = getattr(pywrap, name)

    def call(request: bytes, context: grpc.ServicerContext) -> bytes:
        response, message, status = method(store, request)
        if status:
            code = next(c for c in grpc.StatusCode if c.value[0] == status)
            context.abort(code, message.decode())
        return response

    return grpc.unary_unary_rpc_method_handler(call)


def _connect(config: metadata_store_pb2.ConnectionConfig) -> Any:
    """Opens the store; waits up to ten minutes for a database that has just been started."""
    options = metadata_store_pb2.MigrationOptions().SerializeToString()
    until = time.monotonic() + 600
    while True:
        try:
            return pywrap.CreateMetadataStore(config.SerializeToString(), options)
        except RuntimeError:
            if time.monotonic() > until:
                raise
            time.sleep(2)


def serve(host: str, user: str, password: str, port: int) -> None:
    """Serves the MySQL database `metadb` with one thread, as the store is not thread-safe."""
    config = metadata_store_pb2.ConnectionConfig(
        mysql=metadata_store_pb2.MySQLDatabaseConfig(
            host=host, port=3306, database="metadb", user=user, password=password
        )
    )
    store = _connect(config)
    names = [m.name for m in SERVICE.methods if hasattr(pywrap, m.name)]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    server.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler(
                SERVICE.full_name, {name: _handler(store, name) for name in names}
            )
        ]
    )
    server.add_insecure_port(f"0.0.0.0:{port}")
    server.start()
    print(f"{len(names)} of {len(SERVICE.methods)} methods on port {port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], sys.argv[3], 8080)
