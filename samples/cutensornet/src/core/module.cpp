// The extension module. It keeps to the stable ABI of Python 3.10, which has no buffer protocol
// yet: arrays come and go as bytes.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "checked.hpp"
#include "compute.hpp"

#include <new>

namespace {

PyObject *cuda_error = nullptr;  // the module's exception

struct PythonError {};  // Python's own error is set already

// A reference that is given back with its owner.
class Reference {
  public:
    explicit Reference(PyObject *object) : object_(object) {
        if (!object) throw PythonError{};
    }
    Reference(const Reference &) = delete;
    Reference &operator=(const Reference &) = delete;
    ~Reference() { Py_XDECREF(object_); }
    PyObject *get() const { return object_; }
    PyObject *release() {
        auto *object = object_;
        object_ = nullptr;
        return object;
    }

  private:
    PyObject *object_;
};

// Other threads of Python run while this one waits for the GPU.
class WithoutLock {
  public:
    WithoutLock() : state_(PyEval_SaveThread()) {}
    WithoutLock(const WithoutLock &) = delete;
    WithoutLock &operator=(const WithoutLock &) = delete;
    ~WithoutLock() { PyEval_RestoreThread(state_); }

  private:
    PyThreadState *state_;
};

[[noreturn]] void refuse(const char *text) {
    PyErr_SetString(PyExc_ValueError, text);
    throw PythonError{};
}

template <typename Function>
PyObject *guarded(Function function) {
    try {
        return function();
    } catch (const PythonError &) {
    } catch (const Failure &failure) {
        PyErr_SetString(cuda_error, failure.what());
    } catch (const std::bad_alloc &) {
        PyErr_NoMemory();
    }
    return nullptr;
}

template <typename Read>
void for_each(PyObject *sequence, Read read) {
    const auto size = PySequence_Size(sequence);
    if (size < 0) throw PythonError{};
    for (Py_ssize_t index = 0; index < size; ++index) {
        read(Reference(PySequence_GetItem(sequence, index)).get());
    }
}

std::vector<std::int64_t> read_extents(PyObject *sequence) {
    std::vector<std::int64_t> extents;
    for_each(sequence, [&](PyObject *item) {
        extents.push_back(PyLong_AsLongLong(item));
        if (PyErr_Occurred()) throw PythonError{};
        if (extents.back() < 1) refuse("an extent is less than 1");
    });
    return extents;
}

std::vector<std::int32_t> read_modes(PyObject *sequence, const Network &network) {
    std::vector<std::int32_t> modes;
    for_each(sequence, [&](PyObject *item) {
        const auto mode = PyLong_AsLong(item);
        if (PyErr_Occurred()) throw PythonError{};
        if (mode < 0 || static_cast<std::size_t>(mode) >= network.extents.size()) {
            refuse("a mode has no extent");
        }
        modes.push_back(static_cast<std::int32_t>(mode));
    });
    return modes;
}

const char *read_data(PyObject *bytes, std::size_t size) {
    if (bytes == Py_None) return nullptr;
    char *start = nullptr;
    Py_ssize_t found = 0;
    if (PyBytes_AsStringAndSize(bytes, &start, &found) < 0) throw PythonError{};
    if (static_cast<std::size_t>(found) != size) refuse("the data don't have the size of the shape");
    return start;
}

cudaDataType_t type_of(int is_complex) { return is_complex ? CUDA_C_64F : CUDA_R_64F; }

// `args`: whether complex; the extent of each mode; for each input its modes and its bytes or None;
// the modes of the output.
Network read_network(PyObject *args) {
    int is_complex = 0;
    PyObject *extents = nullptr, *inputs = nullptr, *output = nullptr;
    if (!PyArg_ParseTuple(args, "pOOO", &is_complex, &extents, &inputs, &output)) {
        throw PythonError{};
    }
    Network network{type_of(is_complex), read_extents(extents), {}, {}};
    for_each(inputs, [&](PyObject *input) {
        PyObject *modes = nullptr, *data = nullptr;
        if (!PyArg_ParseTuple(input, "OO", &modes, &data)) throw PythonError{};
        const auto read = read_modes(modes, network);
        network.inputs.push_back({read, read_data(data, network.bytes_of(read))});
    });
    network.output = read_modes(output, network);
    return network;
}

PyObject *py_count_flops(PyObject *, PyObject *args) {
    return guarded([&] {
        const auto network = read_network(args);
        double flops = 0;
        {
            WithoutLock unlocked;
            flops = count_flops(network);
        }
        return PyFloat_FromDouble(flops);
    });
}

PyObject *py_contract(PyObject *, PyObject *args) {
    return guarded([&] {
        const auto network = read_network(args);
        for (const auto &input : network.inputs) {
            if (!input.data) refuse("an input has no data");
        }
        const auto size = static_cast<Py_ssize_t>(network.bytes_of(network.output));
        Reference result(PyBytes_FromStringAndSize(nullptr, size));
        auto *start = PyBytes_AsString(result.get());
        {
            WithoutLock unlocked;
            contract(network, start);
        }
        return result.release();
    });
}

PyObject *py_singular_values(PyObject *, PyObject *args) {
    return guarded([&] {
        int is_complex = 0;
        long long rows = 0, columns = 0;
        PyObject *data = nullptr;
        if (!PyArg_ParseTuple(args, "pLLO", &is_complex, &rows, &columns, &data)) {
            throw PythonError{};
        }
        if (rows < 1 || columns < rows) refuse("there are more rows than columns, or none");
        const Network shape{type_of(is_complex), {rows, columns}, {}, {}};
        const auto *matrix = read_data(data, shape.bytes_of({0, 1}));
        if (!matrix) refuse("the matrix has no data");
        Reference result(PyBytes_FromStringAndSize(nullptr, rows * Py_ssize_t{sizeof(double)}));
        auto *start = PyBytes_AsString(result.get());
        {
            WithoutLock unlocked;
            find_singular_values(shape.type, rows, columns, matrix, start);
        }
        return result.release();
    });
}

PyMethodDef methods[] = {
    {"count_flops", py_count_flops, METH_VARARGS, nullptr},
    {"contract", py_contract, METH_VARARGS, nullptr},
    {"singular_values", py_singular_values, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__core() {
    return guarded([] {
        Reference module(PyModule_Create(&definition));
        Reference error(PyErr_NewExceptionWithDoc(
            "cutensornet_sample.CudaError", "A call into CUDA failed.", PyExc_RuntimeError,
            nullptr));
        if (PyModule_AddObjectRef(module.get(), "CudaError", error.get()) < 0) throw PythonError{};
        cuda_error = error.release();
        return module.release();
    });
}
