// Compares the schedules with values worked out by hand from Hugging Face's formulas, and tests the schedulers.
#include "lockstep/optim/schedule.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/optim/lr_scheduler.h"

namespace lockstep {
namespace {

struct ScheduleCase {
  const char* name;
  const char* schedule;
  ScheduleOptions options;
  std::vector<double> want;  ///< for steps 0, 1, 2, ..., with an initial rate of 10
  friend std::ostream& operator<<(std::ostream& out, const ScheduleCase& c) { return out << c.name; }
};

ScheduleOptions with(std::int64_t warmup, std::int64_t total) {
  ScheduleOptions options;
  options.num_warmup_steps = warmup;
  options.num_training_steps = total;
  options.lr_init = 10;
  return options;
}

template <typename Change>
ScheduleOptions with(std::int64_t warmup, std::int64_t total, const Change& change) {
  ScheduleOptions options = with(warmup, total);
  change(options);
  return options;
}

std::vector<ScheduleCase> schedule_cases() {
  const double half_root = std::sqrt(0.5);
  return {
      {"constant", "constant", with(0, -1), {10, 10, 10, 10}},
      {"constant_with_warmup", "constant_with_warmup", with(4, -1), {0, 2.5, 5, 7.5, 10, 10, 10}},
      {"linear", "linear", with(2, 10), {0, 5, 10, 8.75, 7.5, 6.25, 5, 3.75, 2.5, 1.25, 0, 0, 0}},
      {"linear_without_warmup", "linear", with(0, 4), {10, 7.5, 5, 2.5, 0, 0}},
      {"linear_all_warmup", "linear", with(2, 2), {0, 5, 0, 0}},
      // Quarter points of the half wave: (1 + cos(pi / 4)) / 2 etc.
      {"cosine",
       "cosine",
       with(2, 10),
       {0, 5, 10, 5 * (1 + std::cos(M_PI / 8)), 5 * (1 + half_root), 5 * (1 + std::cos(3 * M_PI / 8)), 5,
        5 * (1 - std::cos(3 * M_PI / 8)), 5 * (1 - half_root), 5 * (1 - std::cos(M_PI / 8)), 0}},
      {"cosine_whole_wave", "cosine", with(0, 4, [](auto& o) { o.num_cycles = 1; }), {10, 5, 0, 5, 10}},
      {"cosine_with_restarts",
       "cosine_with_restarts",
       with(2, 10, [](auto& o) { o.num_cycles = 2; }),
       {0, 5, 10, 5 * (1 + half_root), 5, 5 * (1 - half_root), 10, 5 * (1 + half_root), 5, 5 * (1 - half_root), 0, 0}},
      {"cosine_with_restarts_default",
       "cosine_with_restarts",
       with(0, 4),
       {10, 5 * (1 + half_root), 5, 5 * (1 - half_root), 0}},
      // ((10 - 2) * left^2 + 2), left = 1, 3/4, 1/2, 1/4, 0; afterwards always the end rate.
      {"polynomial",
       "polynomial",
       with(1, 5,
            [](auto& o) {
              o.power = 2;
              o.lr_end = 2;
            }),
       {0, 10, 6.5, 4, 2.5, 2, 2, 2}},
      {"polynomial_default", "polynomial", with(0, 2), {10, 5 + 5e-8, 1e-7, 1e-7}},
      {"inverse_sqrt",
       "inverse_sqrt",
       with(2, -1),
       {0, 5, 10, 10 * std::sqrt(2.0 / 3), 10 * half_root, 10 * std::sqrt(2.0 / 5)}},
      {"inverse_sqrt_timescale",
       "inverse_sqrt",
       with(0, -1, [](auto& o) { o.timescale = 4; }),
       {10, 10 / std::sqrt(1.25), 10 / std::sqrt(1.5)}},
      {"cosine_with_min_lr",
       "cosine_with_min_lr",
       with(2, 6, [](auto& o) { o.min_lr = 2; }),
       {0, 5, 10, 2 + 4 * (1 + half_root), 6, 2 + 4 * (1 - half_root), 2}},
      {"cosine_with_min_lr_rate", "cosine_with_min_lr", with(0, 2, [](auto& o) { o.min_lr_rate = 0.5; }), {10, 7.5, 5}},
      {"cosine_warmup_with_min_lr",
       "cosine_warmup_with_min_lr",
       with(2, 6, [](auto& o) { o.min_lr_rate = 0.2; }),
       {5, 10, 2 + 4 * (1 + half_root), 6, 2 + 4 * (1 - half_root), 2}},
      {"cosine_warmup_from_a_rate",
       "cosine_warmup_with_min_lr",
       with(3, 5,
            [](auto& o) {
              o.min_lr_rate = 0;
              o.warmup_lr_rate = 0.5;
            }),
       {5, 7.5, 10, 5, 0}},
      {"warmup_stable_decay",
       "warmup_stable_decay",
       with(2, -1,
            [](auto& o) {
              o.num_stable_steps = 2;
              o.num_decay_steps = 3;
              o.min_lr_ratio = 0.1;
            }),
       {1, 5.5, 10, 10, 10, 7.75, 3.25, 1, 1, 1}},
      {"warmup_stable_decay_from_total",
       "warmup_stable_decay",
       with(1, 5,
            [](auto& o) {
              o.num_decay_steps = 2;
              o.warmup_type = "cosine";
              o.decay_type = "linear";
            }),
       {0, 10, 10, 10, 5, 0, 0}},
      {"warmup_stable_decay_roots",
       "warmup_stable_decay",
       with(4, -1,
            [](auto& o) {
              o.num_stable_steps = 0;
              o.num_decay_steps = 4;
              o.warmup_type = "1-sqrt";
              o.decay_type = "1-sqrt";
            }),
       {0, 10 * (1 - std::sqrt(0.75)), 10 * (1 - half_root), 5, 10, 5, 10 * (1 - half_root), 10 * (1 - std::sqrt(0.75)),
        0}},
  };
}

class Schedules : public ::testing::TestWithParam<ScheduleCase> {};

TEST_P(Schedules, FollowTheFormula) {
  const ScheduleCase& c = GetParam();
  const Schedule schedule = make_schedule(c.schedule, c.options);
  for (std::size_t step = 0; step < c.want.size(); ++step) {
    EXPECT_NEAR(10 * schedule(static_cast<std::int64_t>(step)), c.want[step], 1e-12) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Schedules, ::testing::ValuesIn(schedule_cases()),
                         [](const auto& test) { return test.param.name; });

TEST(ScheduleErrors, NameWhatIsMissing) {
  EXPECT_THROW(make_schedule("linaer", with(0, 10)), Error);
  EXPECT_THROW(make_schedule("linear", with(0, -1)), Error);
  EXPECT_THROW(make_schedule("linear", with(-1, 10)), Error);
  EXPECT_THROW(make_schedule("polynomial", with(0, 10, [](auto& o) { o.lr_end = 10; })), Error);
  EXPECT_THROW(make_schedule("cosine_with_min_lr", with(0, 10)), Error);
  EXPECT_THROW(make_schedule("cosine_with_min_lr", with(0, 10, [](auto& o) { o.min_lr = o.min_lr_rate = 1; })), Error);
  EXPECT_THROW(make_schedule("warmup_stable_decay", with(0, 10)), Error);
  EXPECT_THROW(make_schedule("warmup_stable_decay", with(0, -1, [](auto& o) { o.num_decay_steps = 1; })), Error);
  EXPECT_THROW(make_schedule("inverse_sqrt", with(0, -1, [](auto& o) { o.timescale = 0; })), Error);
  try {
    make_schedule("nothing", with(0, 1));
    FAIL();
  } catch (const Error& error) {
    for (const std::string& name : schedule_names()) EXPECT_NE(error.fix().find(name), std::string::npos);
  }
}

torch::optim::SGD sgd_of_two_groups(double first, double second) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const double lr : {first, second}) {
    groups.emplace_back(std::vector<at::Tensor>{torch::zeros({1}).set_requires_grad(true)},
                        std::make_unique<torch::optim::SGDOptions>(lr));
  }
  return torch::optim::SGD(groups, torch::optim::SGDOptions(1));
}

TEST(LambdaLRTest, SetsEveryGroupFromConstructionOn) {
  auto optimizer = sgd_of_two_groups(10, 4);
  LambdaLR scheduler(optimizer, make_schedule("linear", with(2, 10)));
  EXPECT_EQ(scheduler.get_last_lr(), (std::vector<double>{0, 0}));
  scheduler.step();
  EXPECT_EQ(scheduler.get_last_lr(), (std::vector<double>{5, 2}));
  static_cast<torch::optim::LRScheduler&>(scheduler).step();
  EXPECT_EQ(scheduler.get_last_lr(), (std::vector<double>{10, 4}));
  EXPECT_EQ(scheduler.last_step(), 2);
  optimizer.add_param_group({{torch::zeros({1}).set_requires_grad(true)}});
  scheduler.step();
  EXPECT_EQ(scheduler.get_last_lr(), (std::vector<double>{8.75, 3.5, 0.875}));
}

TEST(LambdaLRTest, GoesOnFromSavedState) {
  auto optimizer = sgd_of_two_groups(10, 4);
  LambdaLR scheduler(optimizer, make_schedule("cosine", with(2, 10)));
  for (int i = 0; i < 5; ++i) scheduler.step();
  auto other = sgd_of_two_groups(1, 1);
  LambdaLR resumed(other, make_schedule("cosine", with(2, 10)));
  resumed.load_state(scheduler.state());
  EXPECT_EQ(resumed.get_last_lr(), scheduler.get_last_lr());
  for (int i = 0; i < 7; ++i) {
    scheduler.step();
    resumed.step();
    EXPECT_EQ(resumed.get_last_lr(), scheduler.get_last_lr());
  }
  EXPECT_THROW(resumed.load_state({3, {1.0}}), Error);
}

std::vector<double> plateau_rates(ReduceLROnPlateau::Options options, const std::vector<double>& metrics) {
  auto optimizer = sgd_of_two_groups(1, 8);
  ReduceLROnPlateau scheduler(optimizer, options);
  std::vector<double> rates;
  for (const double metric : metrics) {
    scheduler.step(metric);
    rates.push_back(optimizer.param_groups()[1].options().get_lr());
  }
  return rates;
}

TEST(ReduceLROnPlateauTest, WaitsLowersAndCoolsDown) {
  ReduceLROnPlateau::Options options;
  options.factor = 0.5;
  options.patience = 1;
  EXPECT_EQ(plateau_rates(options, {5, 4, 4, 4, 4, 4, 3, 3, 3}), (std::vector<double>{8, 8, 8, 4, 4, 2, 2, 2, 1}));
  options.cooldown = 2;
  EXPECT_EQ(plateau_rates(options, {5, 5, 5, 5, 5, 5, 5, 5}), (std::vector<double>{8, 8, 4, 4, 4, 4, 2, 2}));
  options.cooldown = 0;
  options.min_lr = 3;
  EXPECT_EQ(plateau_rates(options, {5, 5, 5, 5, 5, 5, 5}), (std::vector<double>{8, 8, 4, 4, 3, 3, 3}));
}

TEST(ReduceLROnPlateauTest, KnowsWhatIsBetter) {
  ReduceLROnPlateau::Options options;
  options.factor = 0.5;
  options.patience = 0;
  options.threshold = 0.1;
  EXPECT_EQ(plateau_rates(options, {10, 9.5, 8.9}), (std::vector<double>{8, 4, 4}));  // must fall below 9
  options.mode = "max";
  EXPECT_EQ(plateau_rates(options, {10, 10.5, 11.1}), (std::vector<double>{8, 4, 4}));
  options.threshold_mode = "abs";
  EXPECT_EQ(plateau_rates(options, {10, 10.05, 10.15}), (std::vector<double>{8, 4, 4}));
  options.mode = "min";
  EXPECT_EQ(plateau_rates(options, {10, 9.95, 9.85, NAN}), (std::vector<double>{8, 4, 4, 2}));
}

TEST(ReduceLROnPlateauTest, RefusesOptionsThatMakeNoSense) {
  auto optimizer = sgd_of_two_groups(1, 1);
  ReduceLROnPlateau::Options options;
  options.mode = "least";
  EXPECT_THROW(ReduceLROnPlateau(optimizer, options), Error);
  options.mode = "min";
  options.threshold_mode = "relative";
  EXPECT_THROW(ReduceLROnPlateau(optimizer, options), Error);
  options.threshold_mode = "rel";
  options.factor = 1;
  EXPECT_THROW(ReduceLROnPlateau(optimizer, options), Error);
}

}  // namespace
}  // namespace lockstep
