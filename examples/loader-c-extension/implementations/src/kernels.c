/* The inner product of two rows of numbers. Nothing here knows of vectors: the compiler does. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if defined(__AVX512F__)
#define BUILT_FOR "AVX-512"
#elif defined(__AVX2__)
#define BUILT_FOR "AVX2"
#else
#define BUILT_FOR "any processor"
#endif

static float inner_product(const float *restrict a, const float *restrict b, Py_ssize_t count)
{
    float sum = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static int are_floats(const Py_buffer *view)
{
    return view->format != NULL && view->format[0] == 'f' && view->format[1] == '\0';
}

static PyObject *dot(PyObject *module, PyObject *args)
{
    PyObject *left, *right, *result = NULL;
    Py_buffer a, b;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &left, &right))
        return NULL;
    if (PyObject_GetBuffer(left, &a, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0)
        return NULL;
    if (PyObject_GetBuffer(right, &b, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) == 0) {
        if (!are_floats(&a) || !are_floats(&b) || a.len != b.len)
            PyErr_SetString(PyExc_ValueError, "dot() takes two rows of as many 32-bit floats");
        else
            result = PyFloat_FromDouble(inner_product(a.buf, b.buf, a.len / (Py_ssize_t)sizeof(float)));
        PyBuffer_Release(&b);
    }
    PyBuffer_Release(&a);
    return result;
}

static PyMethodDef methods[] = {
    {"dot", dot, METH_VARARGS, "Return the inner product of two rows of 32-bit floats."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernels", NULL, 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddStringConstant(module, "BUILT_FOR", BUILT_FOR) != 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
