#include "lockstep/optim/update/fused_segment.h"

#include <fmt/format.h>

#include <string>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(what, "shard of an optimizer's state", "describe the memory as it is laid out, one dtype a segment");
}

}  // namespace

void check_segment(const FusedSegment& segment) {
  if (segment.parameters.size() != segment.offsets.size()) {
    refuse(fmt::format("{} parameters come with {} offsets", segment.parameters.size(), segment.offsets.size()));
  }
  if (segment.begin < 0 || segment.end < segment.begin) {
    refuse(fmt::format("elements [{}, {}) are not a range", segment.begin, segment.end));
  }
  std::int64_t next = 0;
  for (std::size_t i = 0; i < segment.parameters.size(); ++i) {
    const at::Tensor& parameter = segment.parameters[i];
    const at::ScalarType dtype = parameter.scalar_type();
    if (dtype != at::ScalarType::Float && dtype != at::ScalarType::Double) {
      refuse(fmt::format("parameter {} is {}; a fused update takes Float and Double", i, c10::toString(dtype)));
    }
    if (dtype != segment.parameters.front().scalar_type()) refuse(fmt::format("parameter {} has another dtype", i));
    if (!parameter.is_contiguous() || !parameter.device().is_cpu()) {
      refuse(fmt::format("parameter {} is not contiguous memory of the CPU", i));
    }
    if (segment.offsets[i] < next) {
      refuse(fmt::format("parameter {} starts at element {}, before element {} where the one before it ends", i,
                         segment.offsets[i], next));
    }
    next = segment.offsets[i] + parameter.numel();
  }
}

}  // namespace lockstep
