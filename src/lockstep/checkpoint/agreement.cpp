#include "lockstep/checkpoint/agreement.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

at::Tensor to_device(const Communicator& communicator, const at::Tensor& tensor) {
  return tensor.to(c10::Device(communicator.device_type()));
}

}  // namespace

std::string broadcast_text(Communicator& communicator, const std::string& text, int root) {
  if (communicator.world_size() == 1) return text;
  at::Tensor length = at::empty({1}, at::kLong);
  length.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(text.size());
  length = to_device(communicator, length);
  communicator.broadcast(length, root);
  at::Tensor bytes = at::zeros({length.cpu().data_ptr<std::int64_t>()[0]}, at::kByte);
  if (communicator.rank() == root && !text.empty()) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  bytes = to_device(communicator, bytes);
  communicator.broadcast(bytes, root);
  bytes = bytes.cpu();
  return {static_cast<const char*>(bytes.data_ptr()), bytes.nbytes()};
}

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text) {
  std::vector<std::string> all;
  for (int rank = 0; rank < communicator.world_size(); ++rank) all.push_back(broadcast_text(communicator, text, rank));
  return all;
}

void run_together(Communicator& communicator, const std::function<void()>& body) {
  std::exception_ptr mine;
  std::string problem;
  try {
    body();
  } catch (const std::exception& error) {
    mine = std::current_exception();
    problem = error.what();
  }
  const std::vector<std::string> problems = gather_texts(communicator, problem);
  if (mine != nullptr) std::rethrow_exception(mine);
  for (std::size_t rank = 0; rank < problems.size(); ++rank) {
    if (problems[rank].empty()) continue;
    throw Error(fmt::format("rank {} failed: {}", rank, problems[rank]), communicator.membership().where(),
                "mend it on that rank");
  }
}

}  // namespace lockstep
