"""Code generation on a second thread, while the first one goes on making a plan: LLVM lets go of the interpreter.

The thread lives from the first compilation to ``end``; it has a context and target machines of its own.
"""
import queue
import sys
import threading

SWITCH = 1e-4  # seconds after which the thread that plans lets the other one hand its next text to LLVM


class Compilation:
    """One object file being made: ``image()`` waits for its bytes, and raises what LLVM had against the text."""

    def __init__(self, text, level):
        self.text, self.level, self.done = text, level, threading.Event()
        self.made = self.error = None

    def image(self):
        self.done.wait()
        if self.error is not None:
            raise self.error
        return self.made


class Line:
    """Compilations in the order they were asked for; ``generate(text, level, context, machines)`` makes each."""

    def __init__(self, generate):
        self.generate, self.waiting = generate, queue.SimpleQueue()
        self.interval = sys.getswitchinterval()
        sys.setswitchinterval(min(SWITCH, self.interval))
        threading.Thread(target=self.run, name="rushlight code generation", daemon=True).start()

    def add(self, text, level):
        compilation = Compilation(text, level)
        self.waiting.put(compilation)
        return compilation

    def end(self):
        """Lets the thread go when it has done what was asked for."""
        self.waiting.put(None)
        sys.setswitchinterval(self.interval)

    def run(self):
        import llvmlite.binding as llvm

        context, machines = llvm.create_context(), {}
        while (one := self.waiting.get()) is not None:
            try:
                one.made = self.generate(one.text, one.level, context, machines)
            except Exception as error:  # whoever waits for it raises it
                one.error = error
            one.done.set()
