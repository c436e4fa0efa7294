# JupyterLab with the course's notebooks, for any machine with Docker:
#   docker build --tag transformers . && docker run --interactive --tty --publish 8888:8888 --name course transformers
# What you write stays in the container; `docker start --attach course` opens it again.
FROM python:3.12-slim-bookworm

# A hub that builds images says who runs them.
ARG NB_USER=student
ARG NB_UID=1000
RUN useradd --create-home --uid "$NB_UID" "$NB_USER"

WORKDIR /home/$NB_USER/course
COPY --chown=$NB_UID . .
RUN .binder/postBuild jupyterlab notebook

USER $NB_USER
EXPOSE 8888
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "--ServerApp.root_dir=notebooks"]
