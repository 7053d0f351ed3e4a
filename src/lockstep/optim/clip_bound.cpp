#include "lockstep/optim/clip_bound.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep {

void check_clip_bound(double bound, const char* name, const char* call) {
  if (bound >= 0) return;
  throw Error(fmt::format("{} is {}, which would {}", name, bound,
                          std::isnan(bound) ? "make every gradient NaN" : "change the signs of gradients"),
              call, fmt::format("give it a {} of at least 0; infinity clips nothing", name));
}

}  // namespace lockstep
