#!/bin/sh
set -eu
eval "$(cat)"
docker image inspect 'mcp/github' >/dev/null 2>&1 || docker pull 'mcp/github'
exec mcp-proxy --sse-port 8080 --sse-host '0.0.0.0' --allow-origin '*' --pass-environment -- docker run --rm -i -e GITHUB_TOKEN -e LEVEL 'mcp/github' 'github-mcp' '--log' 'a b'
