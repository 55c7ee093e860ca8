from fadiff_mapper.evaluate import *
