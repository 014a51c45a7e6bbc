// Loads a compose file as `docker compose` does, and prints what became of it as JSON. It starts nothing.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(
		os.Args[1:], cli.WithEnvFiles(), cli.WithDotEnv, cli.WithProfiles([]string{"try"}),
	)
	if err == nil {
		err = load(options)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func load(options *cli.ProjectOptions) error {
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(project)
}
