// Tests in which order parts of an update are called, and in which order they go.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/parallel/update/update_part.h"

namespace lockstep {
namespace {

using Log = std::vector<std::string>;

class LoggedPart final : public UpdatePart {
 public:
  LoggedPart(std::string name, Log& log) : name_(std::move(name)), log_(log) {}
  ~LoggedPart() override { log_.push_back(name_ + " goes"); }
  void look() override { log_.push_back(name_ + " looks"); }

 private:
  const std::string name_;
  Log& log_;
};

TEST(PartList, CallsPartsInTheOrderInWhichTheyWereMade) {
  Log log;
  PartList parts;
  parts.add<LoggedPart>("first", log);
  parts.add<LoggedPart>("second", log);
  for (const auto& part : parts) part->look();
  EXPECT_EQ(log, (Log{"first looks", "second looks"}));
}

// A part may use what those before it own.
TEST(PartList, TheLastPartGoesFirst) {
  Log log;
  {
    PartList parts;
    for (const char* name : {"first", "second", "third"}) parts.add<LoggedPart>(name, log);
  }
  EXPECT_EQ(log, (Log{"third goes", "second goes", "first goes"}));
}

TEST(PartList, OnePartMayGoBefore) {
  Log log;
  PartList parts;
  parts.add<LoggedPart>("first", log);
  const UpdatePart& second = parts.add<LoggedPart>("second", log);
  parts.add<LoggedPart>("third", log);
  parts.remove(second);
  parts.clear();
  EXPECT_EQ(log, (Log{"second goes", "third goes", "first goes"}));
}

}  // namespace
}  // namespace lockstep
