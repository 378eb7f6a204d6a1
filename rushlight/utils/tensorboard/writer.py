"""The writer of event files that TensorBoard reads."""
from __future__ import annotations

import os
import socket
import time
from datetime import datetime

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from . import summary


class FileWriter:
    """One event file in a folder: ``max_queue`` events wait in memory, at most ``flush_secs`` seconds."""

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self.log_dir = os.fspath(log_dir)
        self.event_writer = EventFileWriter(self.log_dir, max_queue, flush_secs, filename_suffix)

    def get_logdir(self):
        """The folder."""
        return self.log_dir

    def add_event(self, event, step=None, walltime=None):
        """Writes an event, of now and of no step unless told."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, content, global_step=None, walltime=None):
        """Writes a Summary message."""
        self.add_event(Event(summary=content), global_step, walltime)

    def flush(self):
        self.event_writer.flush()

    def close(self):
        self.event_writer.close()


def folder_of_now(comment: str) -> str:
    """``runs/`` with the time and the machine's name."""
    return os.path.join("runs", f"{datetime.now():%b%d_%H-%M-%S}_{socket.gethostname()}{comment}")


def not_built(name: str):
    def method(self, *args, **kwargs):
        raise NotImplementedError(
            f"SummaryWriter.{name} is not built: scalars, histograms, pictures, figures, sound, text, graphs, "
            "precision-recall curves and hyperparameters are")
    method.__name__ = method.__qualname__ = name
    return method


class SummaryWriter:
    """Writes figures of a run into a folder that TensorBoard shows (``tensorboard --logdir runs``).

    ``log_dir``: the folder (default: ``runs/`` with date, machine and ``comment``); ``purge_step``: from which step on
      what an earlier run wrote
    there is not to be shown. Usable as a context manager.
    """

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        self.log_dir = os.fspath(log_dir) if log_dir else folder_of_now(comment)
        self.purge_step, self.settings = purge_step, (max_queue, flush_secs, filename_suffix)
        self.file_writer = self.all_writers = None
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        """The file, opened where it is not (any more)."""
        if self.file_writer is None:
            self.file_writer = FileWriter(self.log_dir, *self.settings)
            self.all_writers = {self.log_dir: self.file_writer}
            if self.purge_step is not None:
                self.file_writer.add_event(Event(step=self.purge_step, file_version="brain.Event:2"))
                self.file_writer.add_event(Event(step=self.purge_step, session_log=SessionLog(status=SessionLog.START)))
                self.purge_step = None
        return self.file_writer

    def _beside(self, folder: str) -> FileWriter:
        """The file of a run that is shown beside this one."""
        self._get_file_writer()
        if folder not in self.all_writers:
            self.all_writers[folder] = FileWriter(folder, *self.settings)
        return self.all_writers[folder]

    def _add(self, content, step, walltime):
        self._get_file_writer().add_summary(content, step, walltime)

    def get_logdir(self):
        """The folder."""
        return self.log_dir

    # --- what can be shown --------------------------------------------------------------------------------------------
    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """One number of a step: a Python number, or a tensor with one element."""
        self._add(summary.scalar(tag, scalar_value, new_style), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers in one plot, each as a run of its own."""
        for name, value in tag_scalar_dict.items():
            self._beside(os.path.join(self.log_dir,
                                      f"{main_tag.replace('/', '_')}_{name}")).add_summary(
                                          summary.scalar(main_tag, value), global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        """How often values of a tensor lie where.  ValueError where there are none."""
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """A picture: uint8 in 0..255, or floating point in 0..1; ``dataformats`` names the dimensions."""
        self._add(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """Several pictures, in a grid."""
        self._add(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A figure of Matplotlib, or a list of figures of one size."""
        drawn = summary.figure_pixels(figure if isinstance(figure, (list, tuple)) else [figure], close)
        self._add(summary.image(tag, drawn, "NHWC"), global_step, walltime)

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """Sound in -1..1, of one channel."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """Text, in Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds=127, weights=None, walltime=None):
        """Precision against recall of probabilities."""
        self._add(summary.pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """Hyperparameters and what came of them: a run in a folder below."""
        for given in (hparam_dict, metric_dict):
            if not isinstance(given, dict):
                raise TypeError(f"hparam_dict and metric_dict should be dictionaries, got {type(given).__name__}")
        tried, trial = summary.hparams(hparam_dict, metric_dict)
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(time.time()))) as run:
            run._add(tried, None, None)
            run._add(trial, None, None)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """The operators that one call of a module runs, by module; ``input_to_model``: a tensor, or a tuple of
        arguments."""
        from .graph import graph_of
        if input_to_model is None:
            raise ValueError("add_graph: input_to_model is missing; the graph is that of a call")
        made = graph_of(model, input_to_model)
        if verbose:
            print(made)
        self._get_file_writer().add_event(Event(graph_def=made.SerializeToString()))

    add_embedding, add_mesh, add_video, add_image_with_boxes, add_custom_scalars, add_onnx_graph = map(
        not_built, ("add_embedding", "add_mesh", "add_video", "add_image_with_boxes", "add_custom_scalars",
                    "add_onnx_graph"))

    # --- the files ----------------------------------------------------------------------------------------------------
    def flush(self):
        """Writes what waits."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self):
        """Writes what waits and closes; what is added later goes to a new file."""
        for writer in (self.all_writers or {}).values():
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()
