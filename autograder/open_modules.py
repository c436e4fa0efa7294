"""The modules that a submission may use: each with those of its names that are modules which it may not.

To open another, add its name with no text and run ``python -m autograder.plain_names``.
"""

OPEN = {
    "cmath": "",
    "itertools": "",
    "math": "",
    "matplotlib": "animation artist atexit axes axis backend_bases backend_managers backend_tools backends "
    "bezier category cbook collections colorbar colorizer container contextlib contour dates "
    "dviread figure font_manager ft2font functools gridspec hatch image importlib inset "
    "inspect layout_engine legend legend_handler lines locale logging markers mathtext mlab "
    "offsetbox os patches path patheffects pprint projections pylab quiver rcsetup re sankey "
    "scale shutil sphinxext spines stackplot streamplot style subprocess sys table tempfile "
    "testing tests texmanager text textpath transforms tri typing units widgets",
    "matplotlib.cm": "colors mpl",
    "matplotlib.colors": "Image base64 cbook functools importlib inspect io itertools mpl np re scale",
    "matplotlib.pyplot": "cbook functools importlib inspect logging matplotlib mlab np rcsetup sys "
    "threading time",
    "matplotlib.ticker": "cbook itertools locale logging math mpl mtransforms np string",
    "numpy": "char conftest core ctypeslib distutils dtypes emath exceptions f2py matlib matrixlib "
    "polynomial rec strings test tests version",
    "numpy.fft": "test tests",
    "numpy.linalg": "lapack_lite test tests",
    "numpy.ma": "core extras mrecords test tests testutils",
    "numpy.random": "bit_generator mtrand test tests",
    "numpy.typing": "mypy_plugin tests",
    "scipy.special": "add_newdocs basic cython_special orthogonal sf_error specfun spfun_stats test tests",
    "time": "",
    "torch": "accelerator ao builtins classes compiler contrib cpp cpu ctypes distributed export functional "
    "functools futures fx glob hub importlib inspect jit library masked math monitor mps mtia "
    "multiprocessing nativert nested numa onnx ops os overrides package platform profiler "
    "quantization quasirandom return_types serialization signal sparse storage sys textwrap "
    "threading torch torch_version types warnings windows xpu",
    "torch.autograd": "anomaly_mode forward_ad function grad_mode graph profiler profiler_legacy "
    "profiler_util torch warnings",
    "torch.autograd.functional": "fwAD torch",
    "torch.backends": "cpu cuda cusparselt kleidiai m mha miopen mkl mkldnn nnpack openmp opt_einsum "
    "python_native quantized xeon xnnpack",
    "torch.backends.cudnn": "m rnn",
    "torch.cuda": "amp comm gds graphs green_contexts importlib jiterator memory nccl nvtx os platform "
    "profiler random sparse streams threading torch traceback tunable warnings",
    "torch.distributions": "bernoulli beta binomial categorical cauchy chi2 constraint_registry constraints "
    "continuous_bernoulli dirichlet distribution exp_family exponential "
    "fishersnedecor gamma generalized_pareto geometric gumbel half_cauchy "
    "half_normal independent inverse_gamma kl kumaraswamy laplace lkj_cholesky "
    "log_normal logistic_normal lowrank_multivariate_normal mixture_same_family "
    "multinomial multivariate_normal negative_binomial normal one_hot_categorical "
    "pareto poisson relaxed_bernoulli relaxed_categorical studentT "
    "transformed_distribution transforms uniform utils von_mises weibull wishart",
    "torch.fft": "torch",
    "torch.linalg": "",
    "torch.nn": "attention backends common_types cpp grad intrinsic modules parallel qat quantizable "
    "quantized",
    "torch.nn.functional": "dataclasses grad importlib math np torch warnings",
    "torch.nn.init": "math torch warnings",
    "torch.nn.parameter": "torch",
    "torch.nn.utils": "clip_grad convert_parameters fusion init memory_format parametrizations parametrize "
    "prune stateless",
    "torch.nn.utils.rnn": "torch warnings",
    "torch.optim": "adadelta adagrad adam adamax adamw asgd lbfgs nadam optimizer radam rmsprop rprop sgd "
    "sparse_adam swa_utils",
    "torch.optim.lr_scheduler": "math partial types warnings wraps",
    "torch.random": "contextlib torch warnings",
    "torch.special": "torch",
    "torch.utils.data": "backward_compatibility dataloader datapipes dataset distributed graph "
    "graph_settings sampler",
    "torch.version": "",
}
