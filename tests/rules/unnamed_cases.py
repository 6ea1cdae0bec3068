"""Work that no plain call names, and launches that do nothing, each by the rule that must find it."""

from __future__ import annotations

from flow_cases import LAUNCH, body

from kernel_lint.rules._samples import candidate

UNNAMED: dict[str, list[str]] = {
    "torch-compute": [
        candidate(imports="import itertools", after="y=list(itertools.accumulate([y,y]))[-1]"),
        candidate(imports="from functools import reduce", after="y=reduce(lambda a,b:a+b,[y,y])"),
        candidate(imports="import functools", after="y=self.e(y)").replace(
            "    def forward", "    e=functools.partialmethod(lambda self,t:t.relu())\n\n    def forward"
        ),
        candidate(after="y.scatter_(0,x.long(),x,reduce='add')"),
        candidate(after="y.index_put_((x.long(),),x,accumulate=True)"),
        candidate(after="torch.nn.utils.clip_grad_norm_([y],1.0)"),
        candidate(after="y=torch.autograd.functional.jacobian(lambda t:t.exp(),y)"),
        candidate(after="y=torch.autograd.grad(y,x)[0]"),
        candidate(after="x.requires_grad_()\n(z,)=torch.autograd.grad([y],[x],[y])"),
        candidate(
            imports="from torch.utils.checkpoint import checkpoint",
            init="self.fc=nn.Linear(dim,dim)",
            after="y=checkpoint(self.fc,y)",
        ),
        candidate(
            imports="from torch.nn.utils.stateless import functional_call as fc",
            init="self.fc=nn.Linear(dim,dim)",
            after="y=fc(self.fc,{},(y,))",
        ),
        candidate(init="self.fc=nn.Linear(dim,dim)", after="for m in self.children():\n    y=m(y)"),
        candidate(init="self.fc=nn.Linear(dim,dim)", after="for n,m in self.named_children():\n    y=m(y)"),
        candidate(init="self.fc=nn.Linear(dim,dim)", after="y=self._modules['fc'](y)"),
        candidate(
            init="for i in range(2):\n    setattr(self,f'fc{i}',nn.Linear(dim,dim))",
            after="for i in range(2):\n    y=getattr(self,f'fc{i}')(y)",
        ),
        candidate(init="self.fc=nn.Linear(dim,dim)", after="y=nn.Module.__call__(self.fc,y)"),
        candidate(init="self.fc=nn.Linear(dim,dim)", after="y=self.fc._call_impl(y)"),
        candidate(init="self.fc=nn.Linear(dim,dim)", after="y=nn.Linear.forward(self.fc,y)"),
        candidate(init="self.fc=nn.Linear(dim,dim)", after="y=type(self.fc).forward(self.fc,y)"),
        candidate(
            top="class D:\n    def __get__(self,o,t):\n        return o._y.relu()\n",
            after="self._y=y\ny=self.out",
        ).replace("    def __init__", "    out=D()\n\n    def __init__"),
        candidate(
            top="class D:\n    def __set__(self,o,v):\n        v.relu_()\n", after="self.out=y"
        ).replace("    def __init__", "    out=D()\n\n    def __init__"),
        candidate(
            top="class M(type):\n    def __call__(cls,t):\n        return t.relu()\nclass R(metaclass=M):\n    pass\n",
            after="y=R(y)",
        ),
        candidate(
            top="class M(type):\n    def __getitem__(cls,t):\n        return t.relu()\nclass R(metaclass=M):\n    pass\n",
            after="y=R[y]",
        ),
        candidate(
            top="class R:\n    def __class_getitem__(cls,t):\n        return t.relu()\n", after="y=R[y]"
        ),
        candidate(
            top="class deco:\n    def __init__(self,f):\n        self.f=f\n    def __get__(self,o,t):\n        return lambda x:self.f(o,x).relu()\n"
        ).replace("    def forward", "    @deco\n    def forward"),
        candidate(top="def deco(c):\n    c.forward=lambda self,x:x.relu()\n    return c\n").replace(
            "class Model", "@deco\nclass Model"
        ),
        candidate() + "\nModel.__call__=lambda self,x:x.relu()\n",
        candidate() + "\nModel._call_impl=lambda self,x:x.relu()\n",
        candidate(init="type(self).__call__=lambda self,x:x.relu()"),
        candidate(top="class Other(nn.Module):\n    def forward(self,x):\n        return x.relu()\n").replace(
            "    def __init__", "    def __new__(cls,dim):\n        return Other()\n\n    def __init__"
        ),
        candidate(top="nn.modules.module.register_module_forward_hook(lambda m,i,o:o.relu())\n"),
        candidate(init="self._forward_hooks[0]=lambda m,i,o:o.relu()"),
        candidate(
            imports="from dataclasses import dataclass,field",
            top="@dataclass\nclass Cfg:\n    f: object = field(default_factory=lambda: torch.relu)\n_C=Cfg()\n",
            after="y=_C.f(y)",
        ),
        candidate(
            imports="from collections import namedtuple",
            top="Cfg=namedtuple('Cfg','f')\n_C=Cfg(torch.relu)\n",
            after="y=_C.f(y)",
        ),
        candidate(
            imports="import enum,functools",
            top="class O(enum.Enum):\n    R=functools.partial(torch.relu)\n",
            after="y=O.R.value(y)",
        ),
        candidate(
            imports="import functools",
            top="@functools.singledispatch\ndef op(t):\n    return t\n@op.register\ndef _(t: torch.Tensor):\n    return t.relu()\n",
            after="y=op(y)",
        ),
        candidate(
            imports="from collections import ChainMap",
            top="_C=ChainMap({'a':torch.relu})\n",
            after="y=_C['a'](y)",
        ),
        candidate(top="_C=dict(zip(['a'],[torch.relu]))\n", after="y=_C['a'](y)"),
        candidate(
            imports="from collections import deque", top="_C=deque([torch.relu])\n", after="y=_C.popleft()(y)"
        ),
        candidate(
            imports="import contextlib", after="with contextlib.ExitStack() as s:\n    s.callback(y.relu_)"
        ),
        candidate(top="_L=[]\n_L.append(torch.relu)\n", after="for f in _L:\n    y=f(y)"),
        candidate(top="_L=[]\n_L.extend([torch.relu])\n", after="for f in _L:\n    y=f(y)"),
        candidate(top="_L=[]\n_L+=[torch.relu]\n", after="for f in _L:\n    y=f(y)"),
        candidate(top="_L=[]\n_L[:]=[torch.relu]\n", after="for f in _L:\n    y=f(y)"),
        candidate(
            top="def h(**k):\n    for v in k.values():\n        v=v*2\n    return v\n", after="y=h(t=y)"
        ),
        candidate(top="def h(a,b):\n    return a*b\n", after="ts=[y,y]\ny=h(*ts)"),
        candidate(top="def h(a,b):\n    return a*b\n", after="ts={'a':y,'b':y}\ny=h(**ts)"),
        candidate(init="self.__dict__['f']=torch.relu", after="y=self.f(y)"),
        candidate(init="self.__dict__.update(f=torch.relu)", after="y=self.f(y)"),
        candidate(after="self._t=y\ny=self.zzz").replace(
            "    def forward",
            "    def __getattr__(self,n):\n        return self._t.relu()\n\n    def forward",
        ),
        candidate(
            top="class B(nn.Module):\n    def __init_subclass__(cls,**k):\n        cls.forward=lambda self,x:x.relu()\n"
        ).replace("Model(nn.Module)", "Model(B)"),
        candidate(init="__class__.forward=lambda self,x:x.relu()"),
        candidate(imports="import contextlib", after="with contextlib.nullcontext(y.relu()) as y:\n    pass"),
        candidate(imports="from torch.utils._pytree import tree_map", after="y=tree_map(lambda t:t*2,y)"),
        candidate(after="torch._foreach_mul_([y],2)"),
        candidate(after="torch.optim.SGD([y],0.1).step()"),
        candidate(imports="import operator", after="y=operator.itemgetter(0)((torch.relu,))(y)"),
        candidate(top="def h(*k):\n    return k[0]*2\n", after="y=h(y)"),
        candidate(top="def h(**k):\n    return k['t']*2\n", after="y=h(t=y)"),
        candidate(top="def h(*k):\n    for v in k:\n        v=v*2\n    return v\n", after="y=h(y)"),
    ],
    "no-launch": [
        candidate(init="self.k=nn.Parameter(torch.randn(4))\nself.y0=torch.relu(self.k)").replace(
            "return y", "return self.y0"
        ),
        candidate(init="self.r=torch.randn(dim).softmax(0)").replace(
            "return y", "return self.r.expand_as(y)"
        ),
        body("K().launch(x,y)", top="class K:\n    def launch(self,*a,**k):\n        pass\n"),
        body("y=K().launch(x)", top="class K:\n    def launch(self,t):\n        return t\n"),
        body("S(launch=lambda *a:None).launch(x,y)", imports="from types import SimpleNamespace as S"),
        candidate(after="y.copy_(x)"),
        candidate(after="y.fill_(0)"),
        candidate(after="y[:]=x"),
        candidate(after="y[...]=x"),
        candidate(after="y.data=x"),
        candidate(after="y.set_(x)"),
        candidate(after="t=(y,x)").replace("return y", "return t[1]"),
        candidate(after="t={'a':y,'b':torch.empty_like(x)}").replace("return y", "return t['b']"),
        candidate().replace("Y[i] = X[i] * 2.0", "v = X[i] * 2.0"),
        candidate().replace(".launch(grid=((n + 255) // 256, 1, 1), block=(256, 1, 1), stream=stream)", ""),
        candidate().replace("grid=((n + 255) // 256, 1, 1)", "grid=(0, 1, 1)"),
        body("g=(" + LAUNCH + " for _ in range(1))"),
        body("self.g(x,y)").replace(
            "    def forward",
            "    def g(self,x,y):\n        " + LAUNCH + "\n        yield\n\n    def forward",
        ),
        body("self.g(x,y)").replace(
            "    def forward", "    async def g(self,x,y):\n        " + LAUNCH + "\n\n    def forward"
        ),
        body("map(lambda i:" + LAUNCH + ", range(3))"),
        body("for _ in zip([],x):\n    " + LAUNCH),
        body("list(map(lambda i:" + LAUNCH + ", ()))"),
        body("for _ in range(min(0,x.numel())):\n    " + LAUNCH),
        body("for _ in range(x.numel()%1):\n    " + LAUNCH),
        body("for _ in range(x.numel()&0):\n    " + LAUNCH),
        body("for _ in reversed(()):\n    " + LAUNCH),
    ],
    "file-read": [
        candidate(imports="import tokenize", before="tokenize.open('a')"),
    ],
}
