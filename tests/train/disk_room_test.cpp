#include "lockstep/train/checks/disk_room.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// Twenty updates of a model of 10 MB, with AdamW's two averages beside it.
struct DiskCase {
  const char* name;
  const char* strategy;
  std::int64_t limit;  ///< 0: none
  std::int64_t free_mb;
  const char* said;  ///< "": nothing; "error": an Error
  friend std::ostream& operator<<(std::ostream& out, const DiskCase& c) { return out << c.name; }
};
class DiskRoom : public ::testing::TestWithParam<DiskCase> {};

TEST_P(DiskRoom, IsComparedWithWhatWillBeWritten) {
  TrainingArguments args;
  args.output_dir = "results";
  args.max_steps = 20;
  args.save_steps = 5;
  args.save_strategy = GetParam().strategy;
  if (GetParam().limit > 0) args.save_total_limit = GetParam().limit;
  const TrainingPlan plan = make_training_plan(args, 100, 1, 1);
  const SavedBytes saved = SavedBytes::of(args, 10000000, 10000000);
  const auto check = [&] { return check_disk_room(args, plan, saved, GetParam().free_mb * 1000000); };
  if (std::string(GetParam().said) == "error") {
    try {
      check();
      FAIL() << "no Error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("results"), std::string::npos) << error.what();
    }
  } else if (*GetParam().said == '\0') {
    EXPECT_EQ(check(), "");
  } else {
    EXPECT_NE(check().find(GetParam().said), std::string::npos) << check();
  }
}

INSTANTIATE_TEST_SUITE_P(Table, DiskRoom,
                         ::testing::Values(DiskCase{"all_fit", "steps", 0, 130, ""},
                                           DiskCase{"the_last_does_not", "steps", 0, 129, "4 checkpoints of 30.0 MB"},
                                           DiskCase{"with_a_limit", "steps", 2, 100, ""},
                                           DiskCase{"limit_too_high", "steps", 2, 99, "3 checkpoints"},
                                           DiskCase{"no_checkpoints", "no", 0, 10, ""},
                                           DiskCase{"not_even_the_model", "no", 0, 9,
                                                    "the trained model will take 10.0 MB"},
                                           DiskCase{"not_even_one_checkpoint", "steps", 0, 19, "error"}),
                         [](const auto& test) { return test.param.name; });

TEST(DiskRoomOfFolder, IsThatOfTheNearestFolder) {
  EXPECT_GT(free_bytes_of("/tmp/there/is/no/such/folder"), 0);
  EXPECT_EQ(free_bytes_of("/proc/none"), free_bytes_of("/proc"));
}

TEST(DiskRoomOfCheckpoints, DependsOnTheOptimizer) {
  TrainingArguments args;
  EXPECT_EQ(SavedBytes::of(args, 10, 6).optimizer_state, 12);
  args.save_only_model = true;
  EXPECT_EQ(SavedBytes::of(args, 10, 6).optimizer_state, 0);
  args.save_only_model = false;
  args.optim = "sgd";
  EXPECT_EQ(SavedBytes::of(args, 10, 6).optimizer_state, 0);
}

}  // namespace
}  // namespace lockstep
