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

std::vector<BucketLayout> make_buckets(const std::vector<GradientSize>& gradients, std::int64_t first_cap_bytes,
                                       std::int64_t cap_bytes) {
  if (first_cap_bytes <= 0 || cap_bytes <= 0) {
    throw Error(fmt::format("bucket caps of {} and {} bytes are not positive", first_cap_bytes, cap_bytes),
                "DistributedDataParallel", "give bucket_cap_mb a positive number");
  }
  std::vector<BucketLayout> full;
  std::vector<OpenBucket> open;
  for (std::size_t i = gradients.size(); i-- > 0;) {  // last parameter first, as backward computes them
    const GradientSize& gradient = gradients[i];
    auto found = std::find_if(open.begin(), open.end(), [&](const auto& o) { return o.dtype == gradient.dtype; });
    if (found == open.end()) found = open.insert(open.end(), {gradient.dtype, first_cap_bytes, {}});
    if (!found->bucket.params.empty() && found->bucket.bytes + gradient.bytes > found->cap_bytes) {
      full.push_back(std::exchange(found->bucket, {}));
      found->cap_bytes = cap_bytes;
    }
    found->bucket.params.push_back(i);
    found->bucket.bytes += gradient.bytes;
  }
  for (auto& rest : open) full.push_back(std::move(rest.bucket));
  return full;
}

}  // namespace lockstep
