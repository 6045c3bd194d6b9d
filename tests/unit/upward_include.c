/* Compiles where the layer `backend` and those below it are seen, and not where only `ops` and below are. */
#include "backend/backend.h"
