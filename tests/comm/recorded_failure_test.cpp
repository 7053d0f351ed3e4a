// A rank that sees another one fail records that in the file that its launcher named, also if its program catches it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

class RecordedFailure : public ::testing::TestWithParam<const char*> {
 protected:
  // What rank 1 of two has recorded after both have run `body`.
  nlohmann::json record_of_rank_1(const RankBody& body) {
    RanksOptions options;
    options.prepare = [&](int rank) {
      ::setenv("TORCHELASTIC_ERROR_FILE", (folder_ / std::to_string(rank)).c_str(), 1);
    };
    ranks_as_processes(2, body, options);
    std::ifstream file(folder_ / "1");
    return file ? nlohmann::json::parse(file)["lockstep"] : nlohmann::json();
  }

 private:
  const TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Engines, RecordedFailure, ::testing::Values("shm", "tcp", "gloo"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(RecordedFailure, OfTheStartOfAGroup) {
  const nlohmann::json record = record_of_rank_1([&](const Membership& membership) {
    if (membership.rank == 0) throw std::runtime_error("it cannot open its data");
    EXPECT_THROW(make_communicator(GetParam(), membership), Error);
  });
  EXPECT_EQ(record, (nlohmann::json{{"rank", 1}, {"cause", "lost_peer"}, {"blames", 0}}));
}

TEST_P(RecordedFailure, OfAnOperation) {
  const nlohmann::json record = record_of_rank_1([&](const Membership& membership) {
    const auto group = make_communicator(GetParam(), membership);
    if (membership.rank == 0) return;  // it leaves
    at::Tensor tensor = at::ones({10});
    EXPECT_THROW(group->all_reduce(tensor), Error);
  });
  EXPECT_EQ(record, (nlohmann::json{{"rank", 1}, {"cause", "peer_left"}, {"blames", 0}}));
}

}  // namespace
}  // namespace lockstep
