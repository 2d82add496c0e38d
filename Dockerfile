# The image of btcgraph: the program with the explorer and GraphiQL in it, and nothing else but the C library and root
# certificates. docs/operations.md says how to build and run it.

FROM node:22-bookworm-slim AS playground
WORKDIR /src/playground
COPY playground/package.json playground/package-lock.json ./
RUN npm ci
COPY playground/build.mjs playground/tsconfig.json ./
COPY playground/src src
COPY docs/clients ../docs/clients
COPY src/server/playground/plain ../src/server/playground/plain
RUN npm run build

FROM rust:1.95.0-slim-bookworm AS build
# the components of rust-toolchain.toml are for developers
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs ./
COPY core core
COPY src src
COPY benches benches
COPY tests tests
COPY --from=playground /src/playground/dist playground/dist
# the commit that `btcgraph --version` names: --build-arg BTCGRAPH_GIT_COMMIT=$(git rev-parse HEAD)
ARG BTCGRAPH_GIT_COMMIT=
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release --bin btcgraph && \
    cp target/release/btcgraph /usr/local/bin/ && \
    mkdir /data

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /usr/local/bin/btcgraph /usr/local/bin/btcgraph
COPY --from=build --chown=65532:65532 /data /data
USER 65532:65532
# the last keeps the memory that a block takes for the next one, before which the system would clear it
ENV BTCGRAPH_DATA_DIR=/data \
    BTCGRAPH_SERVER__LISTEN=0.0.0.0:8080 \
    BTCGRAPH_LOG__FORMAT=json \
    MIMALLOC_PURGE_DELAY=-1
VOLUME /data
EXPOSE 8080
# also while it builds its index: whether it is ready is for load balancers, at /health/ready
HEALTHCHECK --interval=30s --timeout=6s --start-period=30s CMD ["btcgraph", "health", "--live"]
ENTRYPOINT ["btcgraph"]
CMD ["serve"]
