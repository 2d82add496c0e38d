"""An S3 server on a free port of this machine, until its standard input ends.

    usage: server.py BUCKET...

Prints the port. The buckets are private; one whose name begins with `public` answers everyone.
"""

import json
import sys

import boto3
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
client = boto3.client(
    "s3",
    endpoint_url=f"http://127.0.0.1:{port}",
    region_name="us-east-1",
    aws_access_key_id="key",
    aws_secret_access_key="secret",
)
for bucket in sys.argv[1:]:
    client.create_bucket(Bucket=bucket)
    if bucket.startswith("public"):
        statement = {
            "Effect": "Allow",
            "Principal": "*",
            "Action": "s3:GetObject",
            "Resource": f"arn:aws:s3:::{bucket}/*",
        }
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        client.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
print(port, flush=True)
sys.stdin.read()
server.stop()
