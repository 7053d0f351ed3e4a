#include "lockstep/comm/mesh/engine_module.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Places = std::vector<std::string>;

TEST(EngineModulePlaces, OfAProgramOfTheBuildAreTheBuildsFirst) {
  EXPECT_EQ(engine_module_places("m.so", "/b/app", "/b/lockstep/bin/m.so", "/b"),
            (Places{"/b/app/m.so", "/b/app/../lib/m.so", "/b/lockstep/bin/m.so", "m.so"}));
  EXPECT_EQ(engine_module_places("m.so", "/b", "/b/bin/m.so", "/b"),
            (Places{"/b/m.so", "/b/../lib/m.so", "/b/bin/m.so", "m.so"}));
}

// It was built somewhere, and that build may be newer or older.
TEST(EngineModulePlaces, OfAnInstalledProgramAreTheInstalledFirst) {
  for (const char* folder : {"/usr/bin", "/b2", "."}) {
    const std::string at = folder;
    EXPECT_EQ(engine_module_places("m.so", at, "/b/bin/m.so", "/b"),
              (Places{at + "/m.so", at + "/../lib/m.so", "m.so", "/b/bin/m.so"}));
  }
}

}  // namespace
}  // namespace lockstep
