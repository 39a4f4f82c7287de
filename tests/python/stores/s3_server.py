"""s3_server.py - a server that speaks S3 on this machine, in a process of its own."""
import contextlib
import os
import subprocess
import sys
import urllib.request

PROGRAM = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


@contextlib.contextmanager
def s3_server(bucket):
    """Environment variables that lead s3fs and obstore, and other clients of S3, to a server with an empty bucket."""
    import s3fs
    server = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL)
    try:
        url = "http://127.0.0.1:%d" % int(server.stdout.readline())
        urllib.request.urlopen(urllib.request.Request("%s/%s" % (url, bucket), method="PUT")).close()
        s3fs.S3FileSystem.clear_instance_cache()  # one of an earlier server: s3fs does not look at the variables again
        yield {"AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "name",
               "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1", "AWS_REGION": "us-east-1",
               "AWS_CONFIG_FILE": os.devnull, "AWS_EC2_METADATA_DISABLED": "true"}
    finally:
        server.stdin.close()
        server.wait()
