/*
 * test_tool_mount.c - which nodes of a mounted source are kept while its folders come and go, without a mount: the test
 * finds and forgets them in the system's place.
 */
#include "lmc_test_os.h"

#include "tool/mount_node.h"

#define ROUND_COUNT 50

volatile int cli_cancel; /* what main.c has */

int os_leads_into(const char *path, const char *folder)
{
    (void)path;
    (void)folder;
    return 0; /* nothing is mounted */
}

/* The child of a folder, which must be there. */
static mount_node *child_of(mount_nodes *nodes, mount_node *folder, const char *name)
{
    int is_there = 0;
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    CU_ASSERT_EQUAL_FATAL(mount_list(nodes, folder, &diag), LMC_OK);
    const size_t place = mount_child_place(folder, name, strlen(name), &is_there);
    CU_ASSERT_FATAL(is_there);
    return folder->children[place];
}

static void list(mount_nodes *nodes, mount_node *folder)
{
    lmc_st_diag diag = LMC_INIT(lmc_st_diag);
    CU_ASSERT_EQUAL(mount_list(nodes, folder, &diag), LMC_OK);
}

/* source/step with a file, and a converted directory with a file and a folder. */
static void put_step(void)
{
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "source/step", 0700), 0);
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "source/step/model.lmc", 0700), 0);
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "source/step/model.lmc/sub", 0700), 0);
    CU_ASSERT(put_file("source/step/note", "") && put_file("source/step/model.lmc/config.json", "") &&
              put_file("source/step/model.lmc/sub/vocabulary", ""));
}

/* The nodes of a new folder, and its root. */
static mount_node *start(mount_nodes *nodes)
{
    CU_ASSERT_EQUAL(os_make_folder(test_fd, "source", 0700), 0);
    mount_nodes_start(nodes, in_root("source"), "");
    mount_node *const root = mount_add_root(nodes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(root);
    CU_ASSERT_EQUAL(root->number, OS_MOUNT_ROOT);
    return root;
}

static void end(mount_nodes *nodes)
{
    mount_nodes_free(nodes);
    CU_ASSERT_EQUAL(remove_name("source"), 0);
}

LMC_TEST(test_folders_that_vanish_are_freed)
{
    mount_nodes nodes;
    mount_node *const root = start(&nodes);
    for (int i = 0; i < ROUND_COUNT; i++) {
        put_step();
        mount_node *const step = child_of(&nodes, root, "step");
        mount_node *const model = child_of(&nodes, step, "model");
        mount_node *const sub = child_of(&nodes, model, "sub");
        CU_ASSERT_PTR_NOT_NULL(child_of(&nodes, sub, "vocabulary"));
        CU_ASSERT_EQUAL(remove_name("source/step"), 0);
        list(&nodes, root);
    }
    CU_ASSERT_EQUAL(root->child_count, 0);
    CU_ASSERT(nodes.count < 16);
    end(&nodes);
}

LMC_TEST(test_nodes_that_the_system_knows)
{
    mount_nodes nodes;
    mount_node *const root = start(&nodes);
    put_step();
    mount_node *const step = child_of(&nodes, root, "step");
    mount_node *const model = child_of(&nodes, step, "model");
    mount_node *const sub = child_of(&nodes, model, "sub");
    mount_node *const file = child_of(&nodes, sub, "vocabulary");
    mount_node *const known[] = {step, model, sub, file};
    uint64_t numbers[4];
    for (size_t i = 0; i < 4; i++) {
        known[i]->found_count = 2;
        numbers[i] = known[i]->number;
    }
    CU_ASSERT_EQUAL(remove_name("source/step"), 0);
    list(&nodes, root);
    for (size_t i = 0; i < 4; i++)
        CU_ASSERT_PTR_EQUAL(mount_find_number(&nodes, numbers[i]), known[i]);
    /* new ones have other numbers, and do not take the places of those */
    put_step();
    mount_node *const again = child_of(&nodes, root, "step");
    CU_ASSERT(again != step);
    for (size_t i = 0; i < 4; i++)
        CU_ASSERT_NOT_EQUAL(child_of(&nodes, again, "note")->number, numbers[i]);
    /* a folder may be forgotten before what is in it */
    for (size_t i = 0; i < 4; i++) {
        known[i]->found_count = 0;
        mount_node_release(&nodes, known[i]);
        for (size_t k = i + 1; k < 4; k++)
            CU_ASSERT_PTR_EQUAL(mount_find_number(&nodes, numbers[k]), known[k]);
    }
    /* places are taken again, numbers are not */
    const size_t count = nodes.count;
    for (int i = 0; i < 4; i++) {
        char name[] = "source/new0";
        name[10] = (char)('0' + i);
        CU_ASSERT(put_file(name, ""));
    }
    for (int i = 0; i < 4; i++) {
        const char name[] = {'n', 'e', 'w', (char)('0' + i), '\0'};
        const uint64_t number = child_of(&nodes, root, name)->number;
        for (size_t k = 0; k < 4; k++)
            CU_ASSERT_NOT_EQUAL(number, numbers[k]);
    }
    CU_ASSERT_EQUAL(nodes.count, count);
    end(&nodes);
}

LMC_TEST(test_converted_directory_that_changes)
{
    mount_nodes nodes;
    mount_node *const root = start(&nodes);
    put_step();
    mount_node *const step = child_of(&nodes, root, "step");
    size_t count = 0;
    for (int i = 0; i < ROUND_COUNT; i++) {
        (void)child_of(&nodes, child_of(&nodes, step, "model"), "config.json");
        count = i == 0 ? nodes.count : count;
        CU_ASSERT(put_file("source/step/model.lmc/more", ""));
        (void)child_of(&nodes, child_of(&nodes, step, "model"), "more");
        CU_ASSERT_EQUAL(remove_name("source/step/model.lmc/more"), 0);
        child_of(&nodes, step, "model")->is_listed = 0; /* its time may be the same */
    }
    CU_ASSERT(nodes.count <= count + 2);
    end(&nodes);
}

LMC_TEST_MAIN_WITH("mount", make_root(&argc, &argv), remove_root())
