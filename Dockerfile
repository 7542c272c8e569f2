# An index of wheelfit, or its proxy: docs/how-to/run-an-index.md says how to run it.

FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
RUN python -m venv /opt/wheelfit \
    && /opt/wheelfit/bin/python -m pip install --no-cache-dir ./runtime '.[server]'

FROM python:3.13-slim
COPY --from=build /opt/wheelfit /opt/wheelfit
# The folder belongs to the user before it becomes a volume, so that new volumes do too.
RUN useradd --system --uid 8942 --home-dir /var/lib/wheelfit --create-home wheelfit
ENV PATH=/opt/wheelfit/bin:$PATH
USER 8942
WORKDIR /var/lib/wheelfit
VOLUME /var/lib/wheelfit
EXPOSE 8942
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8942/-/health/ready')"]
ENTRYPOINT ["wheelfit"]
CMD ["index", "serve", "/var/lib/wheelfit", "--host", "0.0.0.0"]
