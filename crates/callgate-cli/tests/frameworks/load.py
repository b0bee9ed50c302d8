"""Loads the tools of an MCP server with a framework. Prints the name and the parameters of each tool as JSON."""

import asyncio
import json
import os
import sys

URL = sys.argv[2]
HEADERS = {"Authorization": "Bearer " + os.environ["CALLGATE_TOKEN"]}


async def autogen():
    from autogen_ext.tools.mcp import StreamableHttpServerParams, mcp_server_tools

    tools = await mcp_server_tools(StreamableHttpServerParams(url=URL, headers=HEADERS))
    return {tool.name: tool.schema["parameters"] for tool in tools}


async def semantic_kernel():
    from semantic_kernel import Kernel
    from semantic_kernel.connectors.mcp import MCPStreamableHttpPlugin

    async with MCPStreamableHttpPlugin(name="callgate", url=URL, headers=HEADERS) as plugin:
        functions = Kernel().add_plugin(plugin).functions
        return {
            name: {"properties": {it.name: it.schema_data for it in function.metadata.parameters}}
            for name, function in functions.items()
        }


async def openai_agents():
    from agents.mcp import MCPServerStreamableHttp, MCPUtil

    params = {"url": URL, "headers": HEADERS, "timeout": 60}
    async with MCPServerStreamableHttp(params=params, client_session_timeout_seconds=60) as server:
        tools = await server.list_tools()
        for tool in tools:
            MCPUtil.to_function_tool(tool, server, convert_schemas_to_strict=True)
        tools = [MCPUtil.to_function_tool(tool, server, convert_schemas_to_strict=False) for tool in tools]
        return {tool.name: tool.params_json_schema for tool in tools}


async def pydantic_ai():
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.test import TestModel

    model = TestModel(call_tools=[])
    agent = Agent(model, toolsets=[MCPToolset(URL, headers=HEADERS)])
    await agent.run("Which tools are there?")
    tools = model.last_model_request_parameters.function_tools
    return {tool.name: tool.parameters_json_schema for tool in tools}


async def langchain():
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langchain_mcp_adapters.client import MultiServerMCPClient

    server = {"transport": "streamable_http", "url": URL, "headers": HEADERS}
    tools = await MultiServerMCPClient({"callgate": server}).get_tools()
    return {tool.name: convert_to_openai_tool(tool)["function"]["parameters"] for tool in tools}


async def llama_index():
    from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

    tools = await McpToolSpec(BasicMCPClient(URL, headers=HEADERS)).to_tool_list_async()
    return {tool.metadata.name: tool.metadata.get_parameters_dict() for tool in tools}


async def dspy():
    from dspy import Tool
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async with streamablehttp_client(URL, headers=HEADERS) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            tools = [Tool.from_mcp_tool(session, tool) for tool in tools]
            functions = [tool.format_as_litellm_function_call()["function"] for tool in tools]
            return {function["name"]: function["parameters"] for function in functions}


json.dump(asyncio.run(globals()[sys.argv[1]]()), sys.stdout)
