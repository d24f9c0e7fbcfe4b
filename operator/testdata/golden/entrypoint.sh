#!/bin/sh
set -eu
eval "$(cat)"
docker image inspect 'mcp/github' >/dev/null 2>&1 || docker pull 'mcp/github'
exec mcp-proxy --sse-port 8080 --sse-host '0.0.0.0' --allow-origin '*' --pass-environment -- docker run --rm -i --init --log-driver none --cap-drop ALL --security-opt no-new-privileges --memory 512m --cpus 1 --pids-limit 256 -e GITHUB_TOKEN -e LEVEL 'mcp/github' 'github-mcp' '--log' 'a b'
