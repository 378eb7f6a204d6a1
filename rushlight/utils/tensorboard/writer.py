"""The writer of event files that TensorBoard reads."""
from __future__ import annotations

import os
import socket
import time
from datetime import datetime

from tensorboard.compat.proto.event_pb2 import Event, SessionLog, TaggedRunMetadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from . import summary


class FileWriter:
    """One event file in a directory: ``max_queue`` events wait in memory, at most ``flush_secs`` seconds."""

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self.log_dir, self.settings = os.fspath(log_dir), (max_queue, flush_secs, filename_suffix)
        self.event_writer = EventFileWriter(self.log_dir, *self.settings)

    def get_logdir(self):
        """Return the directory."""
        return self.log_dir

    def add_event(self, event, step=None, walltime=None):
        """Write an event; default: the current time and no step."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary, global_step=None, walltime=None):
        """Writes a Summary message."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile, walltime=None):
        """Writes a graph: (GraphDef, what was measured of it or None)."""
        graph, measured = graph_profile
        self.add_event(Event(graph_def=graph.SerializeToString()), None, walltime)
        if measured is not None:
            about = TaggedRunMetadata(tag="step1", run_metadata=measured.SerializeToString())
            self.add_event(Event(tagged_run_metadata=about), None, walltime)

    def add_onnx_graph(self, graph, walltime=None):
        """Writes a GraphDef."""
        self.add_event(Event(graph_def=graph.SerializeToString()), None, walltime)

    def reopen(self):
        """Goes on after ``close``, in a new file."""
        self.event_writer = EventFileWriter(self.log_dir, *self.settings)

    def flush(self):
        self.event_writer.flush()

    def close(self):
        self.event_writer.close()


def folder_of_now(comment: str) -> str:
    """``runs/`` with the time and the machine's name."""
    return os.path.join("runs", f"{datetime.now():%b%d_%H-%M-%S}_{socket.gethostname()}{comment}")


class SummaryWriter:
    """Writes data of a run to a directory that TensorBoard shows (``tensorboard --logdir runs``).

    ``log_dir``: the directory (default: ``runs/`` with date, host and ``comment``); ``purge_step``: first step of an
      earlier run there that is hidden. Usable as a context manager.
    """

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        self.log_dir = os.fspath(log_dir) if log_dir else folder_of_now(comment)
        self.purge_step, self.settings = purge_step, (max_queue, flush_secs, filename_suffix)
        self.file_writer = self.all_writers = None
        self.embeddings: list = []
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
        """Return the file of an additional run that is shown with this one."""
        self._get_file_writer()
        if folder not in self.all_writers:
            self.all_writers[folder] = FileWriter(folder, *self.settings)
        return self.all_writers[folder]

    def _add(self, content, step, walltime):
        self._get_file_writer().add_summary(content, step, walltime)

    def get_logdir(self):
        """Return the directory."""
        return self.log_dir

    # --- what can be shown --------------------------------------------------------------------------------------------
    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """One number of a step: a Python number, or a tensor with one element."""
        self._add(summary.scalar(tag, scalar_value, None, new_style, double_precision), global_step,
                  walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers in one plot, each as a run of its own."""
        for name, value in tag_scalar_dict.items():
            self._beside(os.path.join(self.log_dir,
                                      f"{main_tag.replace('/', '_')}_{name}")).add_summary(
                                          summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag, tensor, global_step=None, walltime=None):
        """A tensor as it is."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram_raw(self, tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step=None,
                          walltime=None):
        """A histogram that was counted elsewhere.  ValueError where there is not one count for each limit."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError(f"len(bucket_limits) != len(bucket_counts): {len(bucket_limits)} and {len(bucket_counts)}")
        self._add(summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts),
                  global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        """Write a histogram of a tensor's values.  ValueError for an empty one."""
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """A picture: uint8 in 0..255, or floating point in 0..1; ``dataformats`` names the dimensions."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """Several pictures, in a grid."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A figure of Matplotlib, or a list of figures of one size."""
        drawn = summary.figure_pixels(figure if isinstance(figure, (list, tuple)) else [figure], close)
        self._add(summary.image(tag, drawn, dataformats="NHWC"), global_step, walltime)

    def add_image_with_boxes(self, tag, img_tensor, box_tensor, global_step=None, walltime=None, rescale=1,
                             dataformats="CHW", labels=None):
        """A picture with boxes [n, 4] (left, top, right, bottom), each with a label if there are any.  ValueError where
        there is not one label for each box."""
        labels = [labels] if isinstance(labels, str) else labels
        if labels is not None and len(labels) != len(box_tensor):
            raise ValueError(f"{len(box_tensor)} boxes have {len(labels)} labels")
        self._add(summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels), global_step, walltime)

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None):
        """Moving pictures [n, time, channels, height, width]: uint8, or floating point in 0..1."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_mesh(self, tag, vertices, colors=None, faces=None, config_dict=None, global_step=None, walltime=None):
        """Bodies of three dimensions: points [n, points, 3], colors and triangles of them."""
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default", metadata_header=None):
        """Points [n, dimensions] for the projector, with a label (or several, named by ``metadata_header``) and a
        picture [n, channels, height, width] for each.  AssertionError where there is not one for each point."""
        from . import projector
        info = projector.written(self.get_logdir(), summary.array(mat), metadata, label_img, global_step or 0, tag,
                                 metadata_header)
        self._get_file_writer()
        self.embeddings.append(info)
        projector.list_all(self.get_logdir(), self.embeddings)

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """Sound in -1..1, of one channel."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """Text, in Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds=127, weights=None, walltime=None):
        """Precision against recall of probabilities."""
        self._add(summary.pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(self, tag, true_positive_counts, false_positive_counts, true_negative_counts,
                         false_negative_counts, precision, recall, global_step=None, num_thresholds=127, weights=None,
                         walltime=None):
        """Precision against recall, counted elsewhere."""
        self._add(summary.pr_curve_raw(tag, true_positive_counts, false_positive_counts, true_negative_counts,
                                       false_negative_counts, precision, recall, num_thresholds, weights),
                  global_step, walltime)

    def add_custom_scalars(self, layout):
        """Write the layout of scalars drawn together: category -> title -> ["Multiline", tags], or ["Margin", [value,
        lower, upper]]."""
        self._add(summary.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags, category="default", title="untitled"):
        """Several scalars in one chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags, category="default", title="untitled"):
        """A scalar between two others.  AssertionError where these are not three."""
        if len(tags) != 3:
            raise AssertionError(f"a margin chart shows 3 tags, got {len(tags)}")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """Write hyperparameters and their metrics as a run in a subdirectory."""
        for given in (hparam_dict, metric_dict):
            if not isinstance(given, dict):
                raise TypeError(f"hparam_dict and metric_dict should be dictionaries, got {type(given).__name__}")
        messages = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(time.time()))) as run:
            for message in messages:
                run._add(message, None, None)
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
        self._get_file_writer().add_graph((made, None))

    def add_onnx_graph(self, prototxt):
        """The graph of an ONNX file."""
        from .graph import graph_of_file
        self._get_file_writer().add_onnx_graph(graph_of_file(prototxt))

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
