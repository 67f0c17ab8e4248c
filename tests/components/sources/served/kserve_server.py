"""Runs KServe's ModelServer for one model: `kserve_server.py PORT COMMAND...`.

The command answers each line of instances with a line of predictions. TensorFlow runs in that
command because it needs other package versions than KServe does.
"""

import json
import subprocess
import sys

import kserve

PORT, *COMMAND = sys.argv[1:]


class Taxi(kserve.Model):
    def __init__(self):
        super().__init__("taxi")
        self.process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "ready\n"
        self.ready = True

    def predict(self, payload, headers=None, response_headers=None):
        if "instances" not in payload:
            raise kserve.errors.InvalidInput("no instances")
        self.process.stdin.write(json.dumps(payload["instances"]) + "\n")
        self.process.stdin.flush()
        return {"predictions": json.loads(self.process.stdout.readline())}


if __name__ == "__main__":
    kserve.ModelServer(http_port=int(PORT), enable_grpc=False).start([Taxi()])
