#include "lockstep/parallel/reducer/bucket_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// The bucket of one dtype that still accepts gradients.
struct OpenBucket {
  c10::ScalarType dtype;
  std::int64_t cap_bytes;
  BucketLayout bucket;
};

}  // namespace

std::vector<BucketLayout> make_buckets(const std::vector<GradientSize>& gradients, const BucketCaps& caps) {
  if (caps.first_bytes <= 0 || caps.other_bytes <= 0) {
    throw Error(fmt::format("bucket caps of {} and {} bytes are not positive", caps.first_bytes, caps.other_bytes),
                "DistributedDataParallel", "give bucket_cap_mb a positive number");
  }
  std::vector<BucketLayout> full;
  std::vector<OpenBucket> open;
  for (std::size_t i = gradients.size(); i-- > 0;) {  // last parameter first, as backward computes them
    const GradientSize& gradient = gradients[i];
    auto found = std::find_if(open.begin(), open.end(), [&](const auto& o) { return o.dtype == gradient.dtype; });
    if (found == open.end()) found = open.insert(open.end(), {gradient.dtype, caps.first_bytes, {}});
    if (!found->bucket.params.empty() && found->bucket.bytes + gradient.bytes > found->cap_bytes) {
      full.push_back(std::exchange(found->bucket, {}));
      found->cap_bytes = caps.other_bytes;
    }
    found->bucket.params.push_back(i);
    found->bucket.bytes += gradient.bytes;
  }
  for (auto& rest : open) full.push_back(std::move(rest.bucket));
  return full;
}

}  // namespace lockstep
