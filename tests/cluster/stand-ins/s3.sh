#!/bin/sh
# An S3 store in memory with the bucket of KFP's manifests.
set -eu
export S3_IGNORE_SUBDOMAIN_BUCKETNAME=true
/opt/moto/bin/moto_server --host 0.0.0.0 --port 8333 &
until /opt/moto/bin/python -c 'import boto3; boto3.client(
    "s3", endpoint_url="http://127.0.0.1:8333", region_name="us-east-1",
    aws_access_key_id="any", aws_secret_access_key="any").create_bucket(Bucket="mlpipeline")'
do sleep 1; done
wait
