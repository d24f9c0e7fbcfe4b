# bobbin itself; the image of the sandboxes is another one (`bobbin sandbox build`).
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /bobbin ./cmd/bobbin

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
COPY --from=build /bobbin /usr/local/bin/bobbin
ENTRYPOINT ["/usr/local/bin/bobbin"]
CMD ["serve"]
