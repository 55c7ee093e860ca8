from fadiff_mapper.load import *
from fadiff_mapper.load import Spec, load
