// Python's C API in front of add.cu.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

int runtime_version();
int add_one_on_device(int *value);

static PyObject *answer(PyObject *, PyObject *) {
  return PyLong_FromLong(runtime_version() >= 13000 ? 42 : -1);
}

static PyObject *source(PyObject *, PyObject *) { return PyUnicode_FromString(__FILE__); }

static PyObject *add_one(PyObject *, PyObject *argument) {
  int value = static_cast<int>(PyLong_AsLong(argument));
  if (PyErr_Occurred()) return nullptr;
  int status = add_one_on_device(&value);
  if (status) return PyErr_Format(PyExc_RuntimeError, "CUDA error %d", status);
  return PyLong_FromLong(value);
}

static PyMethodDef methods[] = {
    {"answer", answer, METH_NOARGS, "42, if a CUDA runtime of release 13 answers; needs no GPU."},
    {"source", source, METH_NOARGS, "The file that this was compiled from."},
    {"add_one", add_one, METH_O, "Add one on the GPU."},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", nullptr, -1, methods};

PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&module); }
