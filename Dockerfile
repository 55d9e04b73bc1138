# Everything on a CPU: data preparation, training on TensorFlow, and Beam.
#
#     docker build -t nlpdata .
#     docker run --rm -v "$PWD:/work" --user "$(id -u):$(id -g)" nlpdata nlpdata --help
#
# Other extras: --build-arg EXTRAS=jax (README.md has the list); without TensorFlow and Beam: --build-arg EXTRAS=split.

FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY nlpdata nlpdata
COPY pipelines pipelines
COPY pretrain pretrain
COPY model_configs model_configs
RUN pip wheel --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
ARG EXTRAS=train,beam,split
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(echo /wheels/*.whl)[${EXTRAS}]" \
    && useradd --create-home --uid 1000 nlpdata \
    && install --directory --owner nlpdata /work
USER nlpdata
WORKDIR /work
CMD ["nlpdata", "--help"]
